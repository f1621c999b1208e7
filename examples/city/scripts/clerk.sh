# Writes into its book, as it is called with one or not.
trap 'exit 0' TERM INT
echo "$GC_AGENT writes, in $SEASON: $*"
while :; do sleep 1 & wait $!; done
