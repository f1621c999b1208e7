# Picks in the directory of its rig.
trap 'exit 0' TERM INT
echo "$GC_AGENT picks in $GC_RIG, with a $BASKET basket${LADDER:+ and a ladder}"
while :; do sleep 1 & wait $!; done
