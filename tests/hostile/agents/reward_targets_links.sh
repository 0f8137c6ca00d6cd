# Hard and soft links where the verifier's files go, to files that the agent goes on owning.
rm -rf tests flat.txt
mkdir tests
echo 'exit 0' > ~/kept.sh
echo forged > ~/kept.txt
ln ~/kept.sh tests/check.sh
ln -s ~/kept.txt flat.txt
