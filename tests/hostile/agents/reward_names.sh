# Names that a careless shell would take for options, patterns or commands.
mkdir -p ../logs/verifier
cd ../logs/verifier
touch -- -rf '*' '$(echo 1 > reward.txt)' '; echo 1 > reward.txt' "$(printf 'a\nreward.txt')"
cd ~
touch -- --no-preserve-root -i
