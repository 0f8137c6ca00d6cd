# A fork bomb. It runs against the sandbox's own limit of processes and nothing else.
bomb() { bomb | bomb & }
bomb 2>/dev/null
sleep 2
echo unreached-or-not > after
