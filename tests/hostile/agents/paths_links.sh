# Links of every kind to files of the host, wherever the host might look: by their full path, and by
# all the steps that lead up from a home.
for up in "$CANARY" ../../../../canary ../../../canary ../../canary ../record.json ../../record.json ../lock \
    /etc/shadow /proc/1/root/etc/shadow /proc/self/root/etc/shadow; do
    n=$((n + 1))
    ln -s "$up" "link$n.txt"
    ln -s "$(dirname "$up")" "folder$n"
done
ln -s "$(dirname "$CANARY")" d
rm -rf ../logs/agent
mkdir ../logs/agent
ln -s "$CANARY" ../logs/agent/agent.log
ln -s / ~/root
