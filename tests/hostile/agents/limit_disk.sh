# Fills the home until it is refused, or killed.
while head -c 2000000 /dev/zero >> fill; do sleep 0.02; done 2>/dev/null
