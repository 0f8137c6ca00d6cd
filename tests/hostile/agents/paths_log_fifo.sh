# The agent's log becomes a FIFO.
rm ../logs/agent/agent.log
mkfifo ../logs/agent/agent.log
sleep 1
