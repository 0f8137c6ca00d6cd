# The agent's log becomes a folder.
rm ../logs/agent/agent.log
mkdir -p ../logs/agent/agent.log/agent.log
sleep 1
