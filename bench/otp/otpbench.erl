%% The questions of ../cmd/gobench, put to the supervisor of the installed OTP.
%%
%%   erl -noshell +P 2000000 -pa DIR -run otpbench main IMPL SCENARIO N [ARG ...]
%%
%% IMPL      static   one_for_one (rest: rest_for_one), children listed in init/1
%%           static-gs   the same, children are gen_servers
%%           simple   simple_one_for_one, children added with start_child/2
%%           simple-gs   the same, children are gen_servers
%% SCENARIO  spawn | restart MS | latency ROUNDS PAUSE_MS | rest ROUNDS VICTIM
%%
%% Prints one JSON object on stdout.
-module(otpbench).
-behaviour(supervisor).
-export([main/1, init/1, start_idle/2, start_hot/2, idle_init/2]).
-export([hot_loop/2]).

%% Counter cells.
-define(STARTED, 1).
-define(RUNS, 2).
-define(STORM, 3).
-define(CRASH_AT, 4).

%% "Unlimited": no library option says so, hence a large intensity. OTP keeps
%% one list cell per restart in the period, so the period is the shortest.
-define(INTENSITY, 1000000000).
-define(PERIOD, 1).

main([Impl0, Scenario0, N0 | Args]) ->
    logger:set_primary_config(level, none),
    process_flag(trap_exit, true),
    Impl = list_to_atom(Impl0),
    N = list_to_integer(N0),
    C = atomics:new(8, [{signed, true}]),
    Out = scenario(list_to_atom(Scenario0), Impl, N, [list_to_integer(A) || A <- Args], C),
    io:format("~s~n", [json([{impl, "otp-" ++ Impl0}, {scenario, Scenario0}, {n, N}, {metrics, {Out}}])]),
    halt(0).

%% ---------------------------------------------------------------- scenarios

scenario(spawn, Impl, N, _, C) ->
    gc(),
    {Rss0, Mem0} = mem(),
    T0 = now_ns(),
    Sup = start(Impl, one_for_one, N, false, C),
    Api = now_ns() - T0,
    wait(fun() -> atomics:get(C, ?STARTED) >= N end),
    Spawn = now_ns() - T0,
    garbage_collect(Sup),
    gc(),
    {Rss1, Mem1} = mem(),
    T1 = now_ns(),
    stop(Sup),
    Down = now_ns() - T1,
    [{api_s, Api / 1.0e9}, {spawn_s, Spawn / 1.0e9},
     {rss_per_child, (Rss1 - Rss0) div N},
     {mem_per_child, (Mem1 - Mem0) div N},
     {shutdown_s, Down / 1.0e9}];
scenario(restart, Impl, N, [Ms], C) ->
    atomics:put(C, ?STORM, 1),
    _ = start(Impl, one_for_one, N, true, C),
    wait(fun() -> atomics:get(C, ?RUNS) > 0 end),
    T0 = now_ns(),
    R0 = atomics:get(C, ?RUNS),
    timer:sleep(100),
    T1 = now_ns(),
    R1 = atomics:get(C, ?RUNS),
    timer:sleep(max(0, Ms - 100)),
    T2 = now_ns(),
    R2 = atomics:get(C, ?RUNS),
    [{first_100ms_per_s, (R1 - R0) * 1.0e9 / (T1 - T0)},
     {restarts_per_s, (R2 - R0) * 1.0e9 / (T2 - T0)}];
scenario(latency, Impl, N, [Rounds, Pause], C) ->
    persistent_term:put(bench_driver, self()),
    _ = start(Impl, one_for_one, N, true, C),
    wait(fun() -> atomics:get(C, ?STARTED) >= N end),
    Hot = receive {hot, H, _} -> H end,
    V = lists:sort(latency(Rounds, Pause, Hot, C, [])),
    L = length(V),
    [{p50_us, nth(V, L, 0.50) / 1.0e3}, {p99_us, nth(V, L, 0.99) / 1.0e3},
     {max_us, lists:last(V) / 1.0e3}];
scenario(rest, Impl, N, [Rounds, Victim], C) ->
    Sup = start(Impl, rest_for_one, N, false, C),
    wait(fun() -> atomics:get(C, ?STARTED) >= N end),
    V = lists:sort(rest(Rounds, N - Victim + 1, Victim, Sup, C, [])),
    [{p50_us, nth(V, length(V), 0.50) / 1.0e3}, {max_us, lists:last(V) / 1.0e3}].

latency(0, _, _, _, Acc) -> Acc;
latency(K, Pause, Hot, C, Acc) ->
    timer:sleep(Pause),
    Hot ! crash,
    receive {hot, New, D} -> latency(K - 1, Pause, New, C, [D | Acc])
    after 30000 -> exit(no_restart)
    end.

rest(0, _, _, _, _, Acc) -> Acc;
rest(K, Expect, Victim, Sup, C, Acc) ->
    timer:sleep(2),
    {Victim, Pid, _, _} = lists:keyfind(Victim, 1, supervisor:which_children(Sup)),
    Want = atomics:get(C, ?STARTED) + Expect,
    T0 = now_ns(),
    exit(Pid, crash),
    spin(fun() -> atomics:get(C, ?STARTED) >= Want end),
    rest(K - 1, Expect, Victim, Sup, C, [now_ns() - T0 | Acc]).

%% --------------------------------------------------------------- supervisor

start(Impl, Strategy, N, Hot, C) when Impl =:= static; Impl =:= 'static-gs' ->
    Idle = [#{id => I, start => {?MODULE, start_idle, [kind(Impl), C]}} || I <- lists:seq(1, N)],
    HotSpec = [#{id => hot, start => {?MODULE, start_hot, [kind(Impl), C]}} || Hot],
    {ok, Sup} = supervisor:start_link(?MODULE, {Strategy, Idle ++ HotSpec}),
    Sup;
start(Impl, one_for_one, N, Hot, C) ->
    %% One start function for both: the extra argument says which.
    Spec = #{id => child, start => {?MODULE, start_idle, []}},
    HotSpec = Spec#{start := {?MODULE, start_idle, []}},
    {ok, Sup} = supervisor:start_link(?MODULE, {simple_one_for_one, [HotSpec]}),
    add(Sup, [kind(Impl), C], N),
    _ = [{ok, _} = supervisor:start_child(Sup, [{hot, kind(Impl)}, C]) || Hot],
    Sup.

add(_, _, 0) -> ok;
add(Sup, Args, N) ->
    {ok, _} = supervisor:start_child(Sup, Args),
    add(Sup, Args, N - 1).

kind('static-gs') -> gs;
kind('simple-gs') -> gs;
kind(_) -> bare.

init({Strategy, Specs}) ->
    {ok, {#{strategy => Strategy, intensity => ?INTENSITY, period => ?PERIOD}, Specs}}.


stop(Sup) ->
    Ref = monitor(process, Sup),
    exit(Sup, shutdown),
    receive {'DOWN', Ref, _, _, _} -> ok end.

%% ----------------------------------------------------------------- children

start_idle({hot, Kind}, C) -> start_hot(Kind, C);
start_idle(bare, C) -> {ok, spawn_link(?MODULE, idle_init, [C, ok])};
start_idle(gs, C) -> gen_server:start_link(otpbench_gs, C, []).

idle_init(C, ok) ->
    atomics:add(C, ?STARTED, 1),
    receive never -> ok end.

%% The hot child is a bare process under each kind.
start_hot(_Kind, C) -> {ok, spawn_link(?MODULE, hot_loop, [C, ok])}.

hot_loop(C, ok) ->
    Now = now_ns(),
    atomics:add(C, ?RUNS, 1),
    case atomics:get(C, ?STORM) of
        1 -> exit(crash);
        0 ->
            At = atomics:get(C, ?CRASH_AT),
            persistent_term:get(bench_driver) ! {hot, self(), Now - At},
            receive crash ->
                atomics:put(C, ?CRASH_AT, now_ns()),
                exit(crash)
            end
    end.

%% -------------------------------------------------------------------- tools

now_ns() -> erlang:monotonic_time(nanosecond).

gc() -> erlang:garbage_collect().

mem() ->
    {ok, B} = file:read_file("/proc/self/statm"),
    [_, Pages | _] = string:lexemes(binary_to_list(B), " "),
    {list_to_integer(Pages) * 4096, erlang:memory(total)}.

wait(F) ->
    case F() of true -> ok; false -> timer:sleep(1), wait(F) end.

spin(F) ->
    case F() of true -> ok; false -> erlang:yield(), spin(F) end.

nth(V, L, Q) -> lists:nth(min(L, trunc(Q * L) + 1), V).

json(KVs) ->
    ["{", lists:join(",", [["\"", atom_to_list(K), "\":", val(V)] || {K, V} <- KVs]), "}"].

val({KVs}) -> json(KVs);
val(V) when is_integer(V) -> integer_to_list(V);
val(V) when is_float(V) -> float_to_list(V, [{decimals, 6}, compact]);
val(V) when is_list(V) -> ["\"", V, "\""].
