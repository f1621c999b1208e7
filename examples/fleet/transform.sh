#!/bin/sh
# Fails once, in its first incarnation; publish is restarted with it.
echo "transforming"
if [ "$COPPICE_INCARNATION" = 1 ]; then
	sleep 5
	echo "cannot parse item 3" >&2
	exit 1
fi
sleep 5
echo "nothing left to transform"
