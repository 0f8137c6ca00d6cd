# Takes all the memory there is; the shell that asked for it lives, and goes on.
(head -c 300000000 /dev/zero; sleep 3) | tail -n 1 >/dev/null
echo "${PIPESTATUS[1]}" > end
