#!/bin/sh
# Works until it is stopped. It counts its starts in a belief, which is the same on each node.
n=$(($(coppice agent belief get starts 2>/dev/null || echo 0) + 1))
coppice agent belief set "starts=$n"
echo "start $n of the worker"
trap 'exit 0' TERM
while :; do
	sleep 1 &
	wait $!
done
