# SPDX-License-Identifier: MIT
# Completion of sennit-tls-check for bash.

_sennit_tls_check()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}

	COMPREPLY=()
	case $before in
	--calls)
		mapfile -t COMPREPLY < <(compgen -W "any known pointers" -- "$word")
		return
		;;
	--parks | --never) return ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--calls --parks --never --json --version --help" \
			-- "$word")
		return
	fi
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -f -- "$word")
}

complete -F _sennit_tls_check sennit-tls-check
