# ranks: 2
# cause: name-unknown
# says: address for the name

"""The data server's name is misspelt."""

import urllib.request

urllib.request.urlopen("http://no-such-host.invalid/data.tar")
