#compdef sennit-relay
# SPDX-License-Identifier: MIT
# Completion of sennit-relay for zsh. Groups and backends are those of the running relay.

# _sennit_relay_names groups|backends AT [GROUP]: the groups, or the backends of that group or of
# all. AT is an array with the options that say where the relay is. compadd quotes the names, which
# come from the relay.
_sennit_relay_names() {
	local group=$3 line
	local -aU names
	for line in "${(@f)$(sennit-relay ctl ${(P)2} --timeout 2s names 2> /dev/null)}"; do
		if [[ -n $line && $1 == groups ]]; then
			names+=("${line%% *}")
		elif [[ -n $line && (-z $group || ${line%% *} == "$group") ]]; then
			names+=("${line#* }")
		fi
	done
	compadd -a names
}

_sennit_relay_ctl() {
	local before=${words[CURRENT - 1]} command group
	local -a at commands options
	integer i
	for ((i = 3; i < CURRENT; i++)); do
		case ${words[i]} in
		--at | --token-file) at+=("${(Q)words[i]}" "${(Q)words[i + 1]}") && ((i++)) ;;
		--timeout | --weight | --priority | --max-connections) ((i++)) ;;
		--listener | --group | --backend | --endpoint | --client) ((i++)) ;;
		--*) ;;
		*)
			if [[ -z $command ]]; then
				command=${words[i]}
			elif [[ -z $group ]]; then
				group=${(Q)words[i]}
			fi
			;;
		esac
	done

	case $before in
	--token-file) _files && return ;;
	--at | --timeout | --weight | --priority | --max-connections) return 1 ;;
	--listener | --endpoint | --client) return 1 ;;
	--group) _sennit_relay_names groups at && return ;;
	--backend) _sennit_relay_names backends at && return ;;
	esac
	case $command in
	'')
		commands=(
			'status:the backends, with their states and connections'
			'config:the configuration in effect, as TOML'
			'drain:give a backend no new connections'
			'enable:give a backend the weight that it has in the file'
			'weight:give a backend another weight'
			'add:add a backend'
			'remove:remove a backend; its open connections stay'
			'kill:reset the open connections that fit'
			'reload:read the file again'
			'json:the answer of the admin server to /json'
			'metrics:the answer of the admin server to /metrics'
		)
		options=(
			'--at:the control server of the relay'
			'--token-file:the file of its token'
			'--timeout:give up after so long'
			'--help:print the help'
			'-h:print the help'
		)
		;;
	kill)
		options=(
			'--listener:of this listener'
			'--group:of this group'
			'--backend:of this backend'
			'--endpoint:of this address of a backend'
			'--client:of this client'
			'--all:all connections'
		)
		;;
	drain | enable | weight | remove | add)
		if [[ -z $group ]]; then
			_sennit_relay_names groups at
			return
		elif [[ $command == add ]]; then
			options=(
				'--weight:its share'
				'--priority:0, or more for a backup'
				'--max-connections:the most at the same time'
			)
		elif [[ ${(Q)before} == "$group" ]]; then
			_sennit_relay_names backends at "$group"
			return
		fi
		;;
	esac
	if [[ ${words[CURRENT]} == -* || $command == (kill|add) ]]; then
		((${#options})) && _describe -o option options
	elif ((${#commands})); then
		_describe command commands
	fi
}

_sennit_relay() {
	local -a options commands
	if [[ ${words[2]} == ctl ]] && ((CURRENT > 2)); then
		_sennit_relay_ctl
		return
	fi
	case ${words[CURRENT - 1]} in
	--config | --access-log) _files && return ;;
	--access-log-format) compadd logfmt json && return ;;
	--events) compadd stderr json syslog journal && return ;;
	--connect-timeout | --retries | --idle-timeout | --keepalive | --drain) return 1 ;;
	--handover-drain | --stop-delay | --stats-interval | --admin) return 1 ;;
	esac
	options=(
		'--config:read everything from a file'
		'--check:only validate the file'
		'--supervise:run under a first process'
		'--connect-timeout:give up on a backend that does not answer'
		'--retries:how often to try again'
		'--idle-timeout:close a connection that is idle for this long'
		'--keepalive:probe a peer that is silent for this long'
		'--drain:the time to finish after SIGTERM'
		'--handover-drain:the time to finish after SIGUSR2'
		'--stop-delay:keep listening for this long after SIGTERM'
		'--stats-interval:report the counters at this interval'
		'--admin:serve metrics, health and a page there'
		'--access-log:write a line for each connection'
		'--access-log-format:logfmt or json'
		'--events:where events go'
		'--version:print the version'
		'--verbose:also the features of the kernel'
		'--help:print the help'
		'-h:print the help'
	)
	if [[ ${words[CURRENT]} == -* ]]; then
		_describe -o option options
	elif ((CURRENT == 2)); then
		commands=('ctl:ask a running relay, and change it')
		_describe command commands
	fi
}

_sennit_relay "$@"
