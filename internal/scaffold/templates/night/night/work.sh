#!/bin/sh
# night/work.sh claude|codex: does one task of the pool "coder" in a git worktree of its own, and ends.
# Coppice starts it again for the next task. The task is closed only if its branch has a commit and the
# tests pass, whatever the model says.
command -v "$1" >/dev/null && git rev-parse --quiet --verify HEAD >/dev/null ||
	{ echo "$0 needs $1 in PATH, and a git repository with a commit" >&2; exit 1; }
coppice agent drain-check >/dev/null && exit 0 # it is asked to finish
id=$(coppice agent task claim -q --wait --pool coder) || { coppice agent drain-check >/dev/null; exit; }

root=$PWD
cli=$1
branch=${COPPICE_FAKE:+fake-}$id           # coppice run --fake keeps away from the branches of real tasks
tree=$root/night/trees/$branch

give_back() { # the next try is told why; after max_claims tries the task is parked for a person
	coppice agent outcome retryable --task "$id" --approach "$cli on the branch $branch" --obstacle "$1" >/dev/null
	exit
}

make_tree() { # an earlier try may have left the branch, with commits
	git show-ref -q --verify "refs/heads/$branch" && git worktree add -q -f "$tree" "$branch" ||
		git worktree add -q -f -b "$branch" "$tree"
}
[ -e "$tree/.git" ] || make_tree || make_tree || make_tree || exit # git can fail if two are added at once

prompt() {
	cat <<-END
		Do the task at the end of this text. Questions are not answered tonight. Work in this directory only.
		It is a git worktree on the branch $branch; an earlier try may have left work in it.
		Run the tests with $root/night/check.sh. When they pass, commit all changes with git add and git commit;
		do not push. If you cannot do the task, commit nothing, and say why with the tool task_comment, for the
		task $id.

	END
	coppice agent task show "$id"
}

work() {
	case $1 in
	claude) # edits in its directory, the commands and tools that are named, and no others
		claude -p --output-format stream-json --verbose --permission-mode acceptEdits \
			--allowedTools 'Bash(git add:*)' 'Bash(git commit:*)' "Bash($root/night/check.sh:*)" \
			mcp__coppice__heartbeat mcp__coppice__task_comment \
			--strict-mcp-config --mcp-config "$root/night/mcp.json"
		;;
	codex) # a sandbox without network: it writes to its directory, to /tmp, and to what a commit changes
		own=$(git rev-parse --absolute-git-dir) shared=$(git rev-parse --path-format=absolute --git-common-dir)
		mkdir -p "$shared/logs"
		codex exec --json --sandbox workspace-write --add-dir "$own" --add-dir "$shared/objects" \
			--add-dir "$shared/refs/heads" --add-dir "$shared/logs" \
			-c 'mcp_servers.coppice.command="coppice"' -c 'mcp_servers.coppice.args=["mcp"]' \
			-c 'mcp_servers.coppice.env_vars=["COPPICE_SOCKET", "COPPICE_TOKEN"]' \
			-c 'mcp_servers.coppice.enabled_tools=["heartbeat", "task_comment"]' \
			-c 'mcp_servers.coppice.default_tools_approval_mode="approve"' -
		;;
	esac
}

cd "$tree" || exit
prompt | work "$1" || exit                 # a limit, a crash: the task is open again when this has ended
main=$(git -C "$root" rev-parse HEAD) && commit=$(git rev-list -n 1 HEAD "^$main") || exit
[ -n "$commit" ] || give_back "$cli ended without a commit"
[ -z "$(git status --porcelain)" ] || give_back "changes are not committed: $(git status --porcelain | head -n 5)"
"$root/night/check.sh" >"$tree.check" 2>&1 || give_back "night/check.sh failed: $(tail -n 5 "$tree.check")"
coppice agent task close "$id" --reason "commit $commit"
