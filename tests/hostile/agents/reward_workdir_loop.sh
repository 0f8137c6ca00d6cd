# The work folder and the logs lead to each other, and to themselves.
cd ..
rm -rf workdir logs
ln -s workdir workdir
ln -s logs/x logs
