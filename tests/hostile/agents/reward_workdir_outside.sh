# The work folder leads outside the home.
cd ..
rm -rf workdir
ln -s /usr/bin workdir
