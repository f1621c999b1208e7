#!/bin/sh
# Goes on when the transformer after it fails.
echo "connecting"
sleep 1
echo "connected"
for item in 1 2 3 4 5; do
	echo "fetched item $item"
	sleep 2
done
