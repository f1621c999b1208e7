// Package fakeagent plays the command lines of language models as they were recorded: claude, codex, gemini,
// opencode and copilot, and claude-agent-acp. A call does nothing and asks no model. It prints the stream, keeps the
// file of its session, reacts to signals and ends with the exit code that the real command line has shown.
//
// In a stage of a pipeline, a call answers what the stage asks for. In implement it adds a line to a file of the
// worktree.
//
// The program is coppice itself under another name. What a call plays is a pure function of its Plan, the time since
// the start of the run, the agent and the number of its call, so all calls of a run share a clock and an account.
package fakeagent
