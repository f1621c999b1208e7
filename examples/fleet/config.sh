#!/bin/sh
# Serves the configuration; restarted with the gateway.
echo "serving configuration"
sleep 7
echo "all clients have gone"
