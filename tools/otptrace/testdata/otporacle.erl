%% What the real supervisor does with a script, as a trace.
%%
%%   erl -noshell +S 1:1 -pa . -s otporacle < SCRIPTS > TRACES
%%
%% OTPORACLE_JOBS in the environment is how many scripts run at a time (1 if
%% not set); each has a process of its own, which spends its time sleeping.
%%
%% A script is a list of lines, ended by "---" or the end of input:
%%
%%   sup STRATEGY INTENSITY PERIOD AUTO_SHUTDOWN
%%   child ID RESTART SHUTDOWN SIGNIFICANT TYPE STARTS STOP      before start
%%   start
%%   add ID RESTART SHUTDOWN SIGNIFICANT TYPE STARTS STOP        start_child/2
%%   add ID                                      start_child/2, simple_one_for_one
%%   exit ID REASON        the child exits: normal shutdown {shutdown,x} crash kill
%%   terminate ID | restart ID | delete ID | spec ID | which | count | sleep MS
%%   stop                  the parent asks the supervisor to shut down
%%
%%   SHUTDOWN  milliseconds, infinity or brutal_kill
%%   STARTS    outcomes of start attempts 1, 2, ..: ok error ignore throw; the
%%             last one repeats. Separated by commas.
%%   STOP      what the child does when it is asked to stop: obey (exits with
%%             the reason it was given), normal, other, hang, linger:MS
%%
%% The trace:
%%
%%   > LINE          a script line is executed
%%   + ID N          start attempt N of ID succeeded
%%   ! ID N          start attempt N of ID failed (error, throw)
%%   ~ ID N          start attempt N of ID was ignored
%%   - ID REASON     the process exited
%%   = RESULT        what the call returned; pids are replaced by "pid"
%%   # REASON        the supervisor exited
-module(otporacle).
-behaviour(supervisor).
-export([start/0, init/1, child/4]).

start() ->
    logger:set_primary_config(level, none),
    Jobs = list_to_integer(os:getenv("OTPORACLE_JOBS", "1")),
    {Now, Later} = split(Jobs, [S || S <- scripts(), S =/= []]),
    play([play(S) || S <- Now], Later),
    halt(0).

%% Prints the traces in the order of the scripts; one done, the next begins.
play([], []) -> ok;
play([{P, M} | Playing], Later) ->
    receive {'DOWN', M, process, P, {trace, Lines}} -> [put_line(L) || L <- Lines];
            {'DOWN', M, process, P, Why} -> put_line(io_lib:format("? ~0p", [Why]))
    end,
    put_line("---"),
    {Now, Rest} = split(1, Later),
    play(Playing ++ [play(S) || S <- Now], Rest).

play(Script) ->
    spawn_monitor(fun() -> process_flag(trap_exit, true), exit({trace, run(Script)}) end).

split(N, L) -> lists:split(min(N, length(L)), L).

scripts() -> scripts([], []).

scripts(Script, Acc) ->
    case io:get_line("") of
        eof -> lists:reverse([lists:reverse(Script) | Acc]);
        L0 ->
            case string:trim(L0) of
                "---" -> scripts([], [lists:reverse(Script) | Acc]);
                "" -> scripts(Script, Acc);
                "%" ++ _ -> scripts(Script, Acc);
                L -> scripts([L | Script], Acc)
            end
    end.

run(Script) ->
    T = ets:new(t, [public, ordered_set]),
    ets:insert(T, {seq, 0}),
    Log = spawn_link(fun() -> log_loop(T) end),
    put(t, T), put(log, Log), put(sup, none), put(static, []), put(flags, #{}),
    lists:foreach(fun(L) -> emit(["> ", L]), cmd(string:lexemes(L, " ")), settle() end, Script),
    Lines = [Txt || {{ev, _}, Txt} <- ets:tab2list(T)],
    case get(sup) of
        P when is_pid(P) -> unlink(P), exit(P, kill), timer:sleep(5);
        _ -> ok
    end,
    unlink(Log), exit(Log, kill),
    ets:delete(T),
    Lines.

put_line(Txt) -> io:put_chars([Txt, "\n"]).

%% ----------------------------------------------------------------- commands

cmd(["sup", Strategy, I, P, Auto]) ->
    put(flags, #{strategy => term(Strategy), intensity => term(I), period => term(P),
                 auto_shutdown => term(Auto)});
cmd(["child" | Spec]) -> put(static, get(static) ++ [spec(Spec)]);
cmd(["start"]) ->
    R = supervisor:start_link(?MODULE, {get(flags), get(static)}),
    case R of {ok, P} -> put(sup, P), emit("= ok");
        _ -> result(R) end;
cmd(["add", Name]) -> call(fun(S) -> supervisor:start_child(S, [Name]) end);
cmd(["add" | Spec]) -> call(fun(S) -> supervisor:start_child(S, spec(Spec)) end);
cmd(["exit", Id, Reason]) ->
    case pid(Id) of
        none -> emit("= not_running");
        P when Reason =:= "kill" -> exit(P, kill);
        P -> P ! {exit, term(Reason)}
    end;
cmd(["terminate", Id]) -> call(fun(S) -> supervisor:terminate_child(S, ref(Id)) end);
cmd(["restart", Id]) -> call(fun(S) -> supervisor:restart_child(S, id(Id)) end);
cmd(["delete", Id]) -> call(fun(S) -> supervisor:delete_child(S, id(Id)) end);
cmd(["spec", Id]) ->
    call(fun(S) ->
                 case supervisor:get_childspec(S, ref(Id)) of
                     {ok, M} -> maps:to_list(maps:without([start, modules], M));
                     E -> E
                 end
         end);
cmd(["which"]) ->
    call(fun(S) ->
                 L = [{I, state(P), Ty} || {I, P, Ty, _} <- supervisor:which_children(S)],
                 case maps:get(strategy, get(flags)) of simple_one_for_one -> lists:sort(L); _ -> L end
         end);
cmd(["count"]) -> call(fun supervisor:count_children/1);
cmd(["sleep", Ms]) -> timer:sleep(term(Ms));
cmd(["stop"]) ->
    case get(sup) of
        P when is_pid(P) ->
            exit(P, shutdown),
            receive {'EXIT', P, _} = M -> self() ! M after 20000 -> emit("= timeout") end;
        _ -> emit("= no_supervisor")
    end.

state(P) when is_pid(P) -> running;
state(S) -> S.

call(F) ->
    case get(sup) of
        none -> emit("= no_supervisor");
        S -> try result(F(S)) catch exit:_ -> emit("= no_supervisor") end
    end.

result(R) -> emit(io_lib:format("= ~w", [strip(R)])).

strip(P) when is_pid(P) -> pid;
strip({error, {R, Child}}) when element(1, Child) =:= child -> {error, strip(R)};
strip({error, {shutdown, {failed_to_start_child, Id, _}}}) -> {error, {failed_to_start, Id}};
strip({'EXIT', _}) -> thrown;
strip(T) when is_tuple(T) -> list_to_tuple([strip(E) || E <- tuple_to_list(T)]);
strip(L) when is_list(L) -> [strip(E) || E <- L];
strip(X) -> X.

%% ------------------------------------------------------------ specification

spec([Id, Restart, Shutdown, Significant, Type, Starts, Stop]) ->
    #{id => id(Id),
      start => {?MODULE, child, [get(t), get(log)] ++ simple(Id) ++ [{string:lexemes(Starts, ","), Stop}]},
      restart => term(Restart), shutdown => term(Shutdown),
      significant => term(Significant), type => term(Type)}.

%% The name of a simple_one_for_one child comes with start_child/2.
simple(Id) ->
    case maps:get(strategy, get(flags), one_for_one) of
        simple_one_for_one -> [];
        _ -> [Id]
    end.

id(Id) -> list_to_atom(Id).

ref(Id) ->
    case maps:get(strategy, get(flags)) of
        simple_one_for_one -> case last_pid(Id) of none -> id(Id); P -> P end;
        _ -> id(Id)
    end.

term(S) ->
    {ok, Tokens, _} = erl_scan:string(S ++ "."),
    {ok, T} = erl_parse:parse_term(Tokens),
    T.

init(Arg) ->
    {Flags, Specs} = Arg,
    {ok, {Flags, Specs}}.

%% ----------------------------------------------------------------- children

%% Static children: the name is in the specification. Dynamic instances of a
%% simple_one_for_one supervisor: start_child/2 appends it.
child(T, Log, {Starts, Stop}, Name) -> child_(T, Log, Name, Starts, Stop);
child(T, Log, Name, {Starts, Stop}) -> child_(T, Log, Name, Starts, Stop).

child_(T, Log, Name, Starts, Stop) ->
    N = ets:update_counter(T, {n, Name}, 1, {{n, Name}, 0}),
    seen_exit(T, Log, Name),
    case lists:nth(min(N, length(Starts)), Starts) of
        "ok" ->
            Self = self(),
            P = spawn_link(fun() -> process_flag(trap_exit, true), Self ! {up, self()}, loop(Self, Stop) end),
            receive {up, P} -> ok end,
            ets:insert(T, {{pid, Name}, P}),
            Log ! {watch, self(), P, Name},
            receive {watching, P} -> ok end,
            say(Log, io_lib:format("+ ~s ~w", [Name, N])),
            {ok, P};
        "error" -> say(Log, io_lib:format("! ~s ~w", [Name, N])), {error, failed};
        "ignore" -> say(Log, io_lib:format("~~ ~s ~w", [Name, N])), ignore;
        "throw" -> say(Log, io_lib:format("! ~s ~w", [Name, N])), exit(failed)
    end.

%% The exit of the last incarnation belongs in the trace before its restart.
seen_exit(T, Log, Name) ->
    case ets:lookup(T, {pid, Name}) of
        [{_, Old}] ->
            case is_process_alive(Old) of
                true -> ok;
                false -> Log ! {seen, self(), Old}, receive {seen, Old} -> ok end
            end;
        [] -> ok
    end.

loop(Sup, Stop) ->
    receive
        {exit, Reason} -> exit(Reason);
        {'EXIT', _, Reason} ->
            case Stop of
                "obey" -> exit(Reason);
                "normal" -> exit(normal);
                "other" -> exit(other);
                "hang" -> loop(Sup, Stop);
                "linger:" ++ Ms -> timer:sleep(list_to_integer(Ms)), exit(Reason)
            end
    end.

last_pid(Id) ->
    case ets:lookup(get(t), {pid, Id}) of [{_, P}] -> P; [] -> none end.

pid(Id) ->
    case last_pid(Id) of
        none -> none;
        P -> case is_process_alive(P) of true -> P; false -> none end
    end.

%% -------------------------------------------------------------------- trace

%% The log process writes everything, so that what a process says comes after
%% the exits that it has seen.
emit(Txt) -> say(get(log), Txt).

say(Log, Txt) ->
    Log ! {emit, self(), Txt},
    receive {emitted, Log} -> ok end.

emit(T, Txt) ->
    K = ets:update_counter(T, seq, 1),
    ets:insert(T, {{ev, K}, lists:flatten(Txt)}).

log_loop(T) ->
    receive
        {watch, From, P, Name} ->
            monitor(process, P),
            put(P, Name),
            From ! {watching, P},
            log_loop(T);
        {'DOWN', _, _, P, Reason} ->
            down(T, P, Reason),
            log_loop(T);
        {seen, From, P} ->
            case get(P) of
                undefined -> ok;
                _ -> receive {'DOWN', _, _, P, Reason} -> down(T, P, Reason) end
            end,
            From ! {seen, P},
            log_loop(T);
        {emit, From, Txt} ->
            emit(T, Txt),
            From ! {emitted, self()},
            log_loop(T)
    end.

down(T, P, Reason) -> emit(T, io_lib:format("- ~s ~w", [erase(P), Reason])).

%% Wait until nothing has happened for a while.
settle() -> settle(ets:lookup_element(get(t), seq, 2), 3).

settle(_, 0) -> ok;
settle(Seq, K) ->
    drain(),
    timer:sleep(3),
    drain(),
    case ets:lookup_element(get(t), seq, 2) of
        Seq -> settle(Seq, K - 1);
        New -> settle(New, 3)
    end.

drain() ->
    Sup = get(sup),
    receive
        {'EXIT', Sup, Reason} -> emit(io_lib:format("# ~w", [Reason])), put(sup, none), drain();
        {'EXIT', _, _} -> drain()
    after 0 -> ok
    end.
