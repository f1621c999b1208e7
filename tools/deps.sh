#!/bin/sh
# Sees to it that the programs are there that the tests run against: on Debian
# and its relatives by installing them, elsewhere by saying what is missing.
# With CI=true a program that is missing afterwards is an error.
set -eu
cd "$(dirname "$0")/.."

# program:Debian package
needed="git:git erl:erlang-base tmux:tmux node:nodejs npm:npm"

# unmet says that tests will be skipped, which CI does not take.
unmet() {
	echo "$1 The tests that need it are skipped." >&2
	[ "${CI:-}" != true ] || exit 1
}

missing() {
	for pair in $needed; do
		command -v "${pair%%:*}" >/dev/null 2>&1 || echo "$pair"
	done
}

packages=$(missing | sed 's/.*://' | tr '\n' ' ')
if [ -n "$packages" ] && command -v apt-get >/dev/null 2>&1; then
	sudo=""
	[ "$(id -u)" = 0 ] || sudo="sudo"
	echo "installing $packages"
	export DEBIAN_FRONTEND=noninteractive
	{ $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends $packages >/dev/null; } || true
fi
left=$(missing | sed 's/:.*//' | tr '\n' ' ')
if [ -n "$left" ]; then
	echo "Install with your package manager, such as: brew install erlang git node tmux" >&2
	unmet "Not installed: $left."
fi

# What the tests of the editor's grammar need, in the versions of its lock file.
lock=editors/vscode/package-lock.json
have=editors/vscode/node_modules/.from-lock.json
if command -v npm >/dev/null 2>&1 && ! cmp -s "$lock" "$have"; then
	echo "installing the packages of $lock"
	if (cd editors/vscode && npm ci --silent); then
		cp "$lock" "$have"
	else
		unmet "npm ci has failed in editors/vscode."
	fi
fi
