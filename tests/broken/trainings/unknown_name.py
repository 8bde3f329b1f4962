# ranks: 2
# cause: name-unknown
# says: no address for a host's name
# remedy: getent

"""The data server's name is misspelt."""

import urllib.request

urllib.request.urlopen("http://no-such-host.invalid/data.tar")
