# SPDX-License-Identifier: MIT
# Completion of sennit-run for bash.

_sennit_run()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i

	COMPREPLY=()
	# The words after the program's name are the program's.
	for ((i = 1; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-p | --processors | -s | --stack) ((i++)) ;;
		-*) ;;
		*)
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$word")
			return
			;;
		esac
	done
	case $before in
	-p | --processors | -s | --stack) return ;;
	esac
	if [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "--processors --stack --stats --quiet --force \
			--check --version --help" -- "$word")
		return
	fi
	mapfile -t COMPREPLY < <(compgen -c -- "$word")
}

complete -F _sennit_run sennit-run
