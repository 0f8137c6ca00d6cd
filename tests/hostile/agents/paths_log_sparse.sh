# The agent's log becomes as long as a file can be.
for size in 8E 4P 16T 8T 1T 100G; do
    truncate -s $size ../logs/agent/agent.log 2>/dev/null && break
done
stat -c %s ../logs/agent/agent.log > size
