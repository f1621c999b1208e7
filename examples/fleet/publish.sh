#!/bin/sh
# Ends in order when the transformer before it fails.
trap 'echo "closing the feed"; exit 0' TERM
echo "publishing"
sleep 6 &
wait $!
echo "published"
