#!/bin/sh
# Never works.
echo "incarnation $COPPICE_INCARNATION: trying"
sleep 0.3
echo "does not work" >&2
exit 7
