# A daemon that keeps the agent's output open and writes on when the agent has ended.
setsid nohup bash -c 'while :; do echo from the daemon; echo x >> ticks; sleep 0.02; done' &
echo agent is done
sleep 0.2
