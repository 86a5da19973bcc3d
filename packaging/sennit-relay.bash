# SPDX-License-Identifier: MIT
# Completion of sennit-relay for bash. Groups and backends are those of the running relay.

_sennit_relay()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	# Addresses have colons, at which bash splits words.
	if declare -F _get_comp_words_by_ref > /dev/null; then
		local words cword cur prev
		_get_comp_words_by_ref -n : words cword cur prev
		word=$cur before=$prev
	else
		local words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
	fi

	local ctl=0 command= group= at=() i
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		ctl) ctl=1 ;;
		--at | --token-file) at+=("${words[i]}" "${words[i + 1]}") && ((i++)) ;;
		--timeout | --weight | --priority | --max-connections) ((i++)) ;;
		--*) ;;
		*)
			if [[ -z $command ]]; then
				command=${words[i]}
			elif [[ -z $group ]]; then
				group=${words[i]}
			fi
			;;
		esac
	done

	local choices=
	if ((!ctl)); then
		case $before in
		--config | --access-log)
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
			;;
		esac
		choices="ctl $(sennit-relay --help 2> /dev/null | grep -o -- '^ *\(-h, \)\?--[a-z-]*' |
			sed 's/.*--/--/')"
	elif [[ $before == --token-file ]]; then
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
	elif [[ -z $command ]]; then
		choices="status config drain enable weight add remove kill reload json metrics
			--at --token-file --timeout --help"
	else
		# One name per line. The names come from the relay, so compgen -W must not see them:
		# it would run the commands in a name such as $(...).
		local lines= names=() line
		lines=$(sennit-relay ctl "${at[@]}" --timeout 2s names 2> /dev/null)
		case $command:$before in
		kill:--group) mapfile -t names < <(cut -d ' ' -f 1 <<< "$lines" | sort -u) ;;
		kill:--backend) mapfile -t names < <(cut -d ' ' -f 2- <<< "$lines" | sort -u) ;;
		kill:--*) ;;
		kill:*) choices="--listener --group --backend --endpoint --client --all" ;;
		drain:* | enable:* | weight:* | remove:* | add:*)
			if [[ -z $group ]]; then
				mapfile -t names < <(cut -d ' ' -f 1 <<< "$lines" | sort -u)
			elif [[ $before == "$group" && $command != add ]]; then
				while IFS= read -r line; do
					[[ $line == "$group "* ]] && names+=("${line#"$group "}")
				done <<< "$lines"
			elif [[ $command == add ]]; then
				choices="--weight --priority --max-connections"
			fi
			;;
		esac
		for line in "${names[@]}"; do
			[[ $line == *[!][:alnum:]_.:/@%+,=[-]* ]] && line=$(printf %q "$line")
			[[ -n $line && $line == "$word"* ]] && COMPREPLY+=("$line")
		done
	fi
	[[ -n $choices ]] && mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
	declare -F __ltrim_colon_completions > /dev/null && __ltrim_colon_completions "$word"
}

complete -F _sennit_relay sennit-relay
