# SPDX-License-Identifier: MIT
# Completion of sennit-trace for bash.

_sennit_trace()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}

	COMPREPLY=()
	case $before in
	--task | --chain | --since | --from | --to | --top) return ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--task --chain --since --from --to --top --json
			--version --help" -- "$word")
		return
	fi
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -F _sennit_trace sennit-trace
