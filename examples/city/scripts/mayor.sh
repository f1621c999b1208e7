# Holds office until it is told to stop.
trap 'echo the mayor leaves; exit 0' TERM INT
echo "the mayor of $(basename "$GC_CITY") holds office in $SEASON"
while :; do sleep 1 & wait $!; done
