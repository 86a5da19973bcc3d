# SPDX-License-Identifier: MIT
# Completion of sennit-relay for fish. Groups and backends are those of the running relay.

# The words after "ctl" up to the one under the cursor, without options and their values; fails
# without "ctl".
function __sennit_relay_ctl_words
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = ctl; or return 1
    set -l is_value 0
    for word in $words[3..]
        if test $is_value = 1
            set is_value 0
            continue
        end
        switch $word
            case --all --help -h
            case '-*'
                set is_value 1
            case '*'
                printf '%s\n' $word
        end
    end
end

# Whether the word under the cursor is argument NUMBER, from 0, of one of the commands.
function __sennit_relay_at
    set -l words (__sennit_relay_ctl_words); or return 1
    test (count $words) -eq (math $argv[1] + 1); and contains -- $words[1] $argv[2..]
end

function __sennit_relay_lacks_command
    set -l words (__sennit_relay_ctl_words); and test (count $words) -eq 0
end

function __sennit_relay_has_command
    set -l words (__sennit_relay_ctl_words); or return 1
    test (count $words) -gt 0; and contains -- $words[1] $argv
end

function __sennit_relay_is_main
    set -l words (commandline -opc)
    not contains -- ctl $words[2..2]
end

# "GROUP BACKEND", one a line.
function __sennit_relay_names
    set -l words (commandline -opc)
    set -l at
    for i in (seq 3 (math (count $words) - 1))
        if contains -- $words[$i] --at --token-file
            set -a at $words[$i] $words[(math $i + 1)]
        end
    end
    command sennit-relay ctl $at --timeout 2s names 2>/dev/null
end

function __sennit_relay_groups
    __sennit_relay_names | string replace -r ' .*' '' | sort -u
end

# Backends, of the group that is the command's argument if there is one.
function __sennit_relay_backends
    set -l words (__sennit_relay_ctl_words)
    __sennit_relay_names | while read -l group backend
        if test "$words[1]" = kill; or test "$group" = "$words[2]"
            printf '%s\n' $backend
        end
    end | sort -u
end

complete -c sennit-relay -f
set -l main -c sennit-relay -n __sennit_relay_is_main
complete $main -n 'test (count (commandline -opc)) -eq 1' -a ctl \
    -d 'Ask a running relay, and change it'
complete $main -l config -r -F -d 'Read everything from a file'
complete $main -l check -d 'Only validate the file'
complete $main -l supervise -d 'Run under a first process'
complete $main -l connect-timeout -x -d 'Give up on a backend that does not answer'
complete $main -l retries -x -d 'How often to try again'
complete $main -l idle-timeout -x -d 'Close a connection that is idle for this long'
complete $main -l keepalive -x -d 'Probe a peer that is silent for this long'
complete $main -l drain -x -d 'The time to finish after SIGTERM'
complete $main -l handover-drain -x -d 'The time to finish after SIGUSR2'
complete $main -l stop-delay -x -d 'Keep listening for this long after SIGTERM'
complete $main -l stats-interval -x -d 'Report the counters at this interval'
complete $main -l admin -x -d 'Serve metrics, health and a page there'
complete $main -l access-log -r -F -d 'Write a line for each connection'
complete $main -l access-log-format -x -a 'logfmt json' -d 'The form of these lines'
complete $main -l events -x -a 'stderr json syslog journal' -d 'Where events go'
complete $main -l version -d 'Print the version'
complete $main -l verbose -d 'Also the features of the kernel'
complete $main -s h -l help -d 'Print the help'

set -l ctl -c sennit-relay -n __sennit_relay_lacks_command
complete $ctl -a status -d 'The backends, with their states and connections'
complete $ctl -a config -d 'The configuration in effect, as TOML'
complete $ctl -a drain -d 'Give a backend no new connections'
complete $ctl -a enable -d 'Give a backend the weight that it has in the file'
complete $ctl -a weight -d 'Give a backend another weight'
complete $ctl -a add -d 'Add a backend'
complete $ctl -a remove -d 'Remove a backend; its open connections stay'
complete $ctl -a kill -d 'Reset the open connections that fit'
complete $ctl -a reload -d 'Read the file again'
complete $ctl -a json -d 'The answer of the admin server to /json'
complete $ctl -a metrics -d 'The answer of the admin server to /metrics'
complete $ctl -l at -x -d 'The control server of the relay'
complete $ctl -l token-file -r -F -d 'The file of its token'
complete $ctl -l timeout -x -d 'Give up after so long'
complete $ctl -s h -l help -d 'Print the help'

set -l of_backend drain enable weight remove
complete -c sennit-relay -n "__sennit_relay_at 0 $of_backend add" -a '(__sennit_relay_groups)'
complete -c sennit-relay -n "__sennit_relay_at 1 $of_backend" -a '(__sennit_relay_backends)'
set -l add -c sennit-relay -n '__sennit_relay_has_command add'
complete $add -l weight -x -d 'Its share'
complete $add -l priority -x -d '0, or more for a backup'
complete $add -l max-connections -x -d 'The most at the same time'
set -l kill -c sennit-relay -n '__sennit_relay_has_command kill'
complete $kill -l listener -x -d 'Of this listener'
complete $kill -l group -x -a '(__sennit_relay_groups)' -d 'Of this group'
complete $kill -l backend -x -a '(__sennit_relay_backends)' -d 'Of this backend'
complete $kill -l endpoint -x -d 'Of this address of a backend'
complete $kill -l client -x -d 'Of this client'
complete $kill -l all -d 'All connections'
