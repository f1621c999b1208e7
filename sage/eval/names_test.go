package eval_test

import (
	"strings"
	"testing"

	"github.com/coppice-dev/coppice/sage/eval"
	"github.com/coppice-dev/coppice/sage/host"
)

// Siblings can be addressed by name and reply to a handle in a message. Messages that wait for an
// agent survive its restart.
func TestSiblingsTalk(t *testing.T) {
	got, err := run(t, `
		enum Question { Double(Agent<Client>, Int), Stop }
		agent Server receives Question {
			@persistent failed: Bool
			on start { print("server"); }
			on message(q: Question) {
				match q {
					Double(from, n) => {
						if n == 2 && !self.failed { self.failed = true; fail "once"; }
						try send(from, 2 * n);
					}
					Stop => { yield(0); }
				}
			}
			on error(e) { print(e.message); }
		}
		agent Client receives Int {
			server: Agent<Server>
			on start {
				for n in [1, 2, 3] { try send(self.server, Question::Double(self, n)); }
				print("got {receive()} {receive()}");
				try send(self.server, Question::Stop);
				yield(0);
			}
			on error(e) { print("client: {e.message}"); }
		}
		supervisor Root {
			strategy: OneForOne
			children { Client { restart: Transient server: doubler } Server as doubler { restart: Transient } }
		}
		run Root;`, eval.Options{})
	if got != "server\nonce\nserver\ngot 2 6\n" || err != nil {
		t.Errorf("%s%v", got, err)
	}
}

// The handle of a child that will not run again refuses messages. A child cannot be awaited.
func TestHandlesOfChildren(t *testing.T) {
	got, err := run(t, `
		agent Once receives Int { on start { yield(1); } }
		agent Main {
			once: Agent<Once>
			on start {
				send(self.once, 1) catch(e) { print(e.message); };
				let n = await self.once catch(e) { print(e.message); 0 };
				let m = await self catch(e) { print(e.message); };
			}
		}
		supervisor Inner { strategy: OneForOne children { Once as single { restart: Temporary } Main { restart: Temporary once: single } } }
		supervisor Root { strategy: OneForOne children { Inner as pair { restart: Permanent } } }
		run Root;`, eval.Options{})
	want := "Root/pair/single has ended and takes no messages\n" +
		"Root/pair/single is a child of a supervisor and cannot be awaited\n" +
		"Root/pair/Main cannot await itself\n"
	if got != want || err != nil {
		t.Errorf("%s%v", got, err)
	}
}

// Beliefs belong to the name of a child. Children without a name are told apart by their position.
func TestBeliefsFollowNames(t *testing.T) {
	b := host.NewMemory()
	program := func(children string) string {
		return `agent W { @persistent n: Int id: Int on start { self.n += 1; print("{self.id}:{self.n}"); } }
			supervisor Root { strategy: OneForOne children { ` + children + ` } } run Root;`
	}
	for i, c := range []struct{ children, want string }{
		{`W as eu { restart: Temporary id: 1 } W as us { restart: Temporary id: 2 } W { restart: Temporary id: 3 } W { restart: Temporary id: 4 }`, "1:1 2:1 3:1 4:1"},
		{`W as asia { restart: Temporary id: 5 } W as us { restart: Temporary id: 2 } W { restart: Temporary id: 3 } W as eu { restart: Temporary id: 1 } W { restart: Temporary id: 4 }`, "5:1 2:2 3:2 1:2 4:2"},
	} {
		got, err := run(t, program(c.children), eval.Options{Beliefs: b})
		if got := strings.Join(strings.Fields(got), " "); got != c.want || err != nil {
			t.Errorf("%d: %s, want %s; %v", i, got, c.want, err)
		}
	}
}
