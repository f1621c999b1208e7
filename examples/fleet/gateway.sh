#!/bin/sh
# Fails once, in its first incarnation.
echo "routing requests"
if [ "$COPPICE_INCARNATION" = 1 ]; then
	sleep 3
	echo "lost the upstream" >&2
	exit 1
fi
sleep 6
echo "no more requests"
