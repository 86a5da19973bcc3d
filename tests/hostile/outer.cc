// SPDX-License-Identifier: MIT
#include "hostile/outer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile/board.hpp"

namespace hostile
{
namespace
{

// How much of the child's stderr is kept, which is enough for a sanitizer's report, or a dump.
constexpr size_t kept = 64 << 10;

// The watchdog looks fifty times a second. gdb may take longer, but then the parent waits for gdb.
constexpr int64_t beat_limit = 40 * second;

int asking = -1; // the child's end of the control socket

struct Outer {
	pid_t child;
	int control, errors;
	std::string tail;
	bool ended = false;
	int status = 0;

	void read_errors()
	{
		char text[16384];
		ssize_t n;

		while ((n = read(errors, text, sizeof text)) > 0) {
			tail.append(text, (size_t)n);
			if (tail.size() > 2 * kept)
				tail.erase(0, tail.size() - kept);
		}
	}

	void look_whether_ended()
	{
		if (!ended && waitpid(child, &status, WNOHANG) == child)
			ended = true;
	}

	// Reads stderr for that long, or until there is a request or the child ends. Returns true
	// for a request.
	bool wait(int64_t ns)
	{
		const int64_t until = now() + ns;
		int64_t left;

		while (!ended && (left = until - now()) > 0) {
			struct pollfd ready[2] = {{errors, POLLIN, 0}, {control, POLLIN, 0}};

			poll(ready, 2, (int)std::min<int64_t>(left / ms + 1, 100));
			read_errors();
			if (ready[1].revents & POLLIN)
				return true;
			look_whether_ended();
		}
		return false;
	}

	// Runs gdb for no longer than `limit`; its output goes to the descriptor `output`.
	bool debug(const std::vector<std::string> &commands, int64_t limit, int output)
	{
		const std::string gdb = find_gdb(), pid = std::to_string(child);
		std::vector<std::string> words = {gdb,      "-nx",  "-q",
						  "-batch", "-iex", "set debuginfod enabled off"};
		std::vector<char *> argv;
		int code = -1;

		words.insert(words.end(), commands.begin(), commands.end());
		words.insert(words.end(), {"-p", pid});
		for (std::string &word : words)
			argv.push_back(word.data());
		argv.push_back(nullptr);
		if (gdb.empty())
			return false;
		const pid_t debugger = fork();
		if (debugger == 0) {
			const int in = open("/dev/null", O_RDONLY);

			dup2(in, 0);
			dup2(output, 1);
			dup2(output, 2);
			execv(gdb.c_str(), argv.data());
			_exit(127);
		}
		if (debugger < 0)
			return false;
		const int64_t until = now() + limit;
		while (waitpid(debugger, &code, WNOHANG) == 0) {
			if (now() > until) {
				kill(debugger, SIGKILL);
				waitpid(debugger, &code, 0);
				kill(child, SIGCONT);
				break;
			}
			struct pollfd ready = {errors, POLLIN, 0};
			poll(&ready, 1, 20);
			read_errors();
		}
		return WIFEXITED(code) && WEXITSTATUS(code) == 0;
	}

	bool serve(const char *request)
	{
		int number;

		if (sscanf(request, "stop %d", &number) == 1) {
			kill(child, SIGSTOP);
			const int64_t until = now() + number * ms;
			while (now() < until) {
				struct pollfd ready = {errors, POLLIN, 0};
				poll(&ready, 1, 1);
				read_errors();
			}
			return kill(child, SIGCONT) == 0;
		}
		if (sscanf(request, "signal %d", &number) == 1)
			return kill(child, number) == 0;
		if (strcmp(request, "gdb") == 0) {
			const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
			const bool well =
				debug({"-iex", "set auto-solib-add off", "-ex", "info threads"},
				      60 * second, nowhere);

			close(nowhere);
			return well;
		}
		return false;
	}

	void requests()
	{
		char text[100];
		const ssize_t n = recv(control, text, sizeof text - 1, MSG_DONTWAIT);

		if (n <= 0) {
			// The child has closed its end, so it is about to end.
			look_whether_ended();
			usleep(1000);
			return;
		}
		text[n] = 0;
		const char answer = serve(text) ? 'y' : 'n';
		board->beat = now();
		if (send(control, &answer, 1, MSG_NOSIGNAL) != 1)
			look_whether_ended();
	}

	// Reports everything that it can find out about a process that has failed, and then ends
	// the process.
	void print_failure()
	{
		report_failure();
		look_whether_ended();
		if (!ended) {
			printf("the end of its stderr, with a dump; then gdb's backtraces\n");
			kill(child, SIGQUIT);
			for (int64_t until = now() + 5 * second; !ended && now() < until;) {
				struct pollfd ready = {errors, POLLIN, 0};
				poll(&ready, 1, 100);
				read_errors();
				look_whether_ended();
			}
		}
		printf("---- the end of stderr\n%s\n----\n",
		       tail.substr(tail.size() > kept ? tail.size() - kept : 0).c_str());
		fflush(stdout);
		if (!ended) {
			debug({"-ex", "thread apply all bt 14"}, 60 * second, 1);
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
		}
		printf("\nFAILED, seed %llu: %s\n", (unsigned long long)board->seed,
		       board->failure);
		fflush(stdout);
	}

	// Prints a line from time to time, for runs of hours.
	static void print_progress(int64_t begun)
	{
		uint64_t changes = 0;

		for (const auto &made : board->made)
			changes += made;
		printf("%.0f min: %llu phases, %llu changes\n",
		       (double)(now() - begun) / second / 60,
		       (unsigned long long)board->phases.load(), (unsigned long long)changes);
		fflush(stdout);
	}

	int watch()
	{
		const int64_t begun = now();
		int64_t printed = begun;

		board->beat = now();
		while (!ended) {
			if (now() - printed > 600 * second) {
				print_progress(begun);
				printed += 600 * second;
			}
			if (wait(100 * ms))
				requests();
			if (board->failed)
				break;
			if (now() - board->beat > beat_limit) {
				snprintf(board->failure, sizeof board->failure,
					 "the process hangs, even its watchdog, which is a plain "
					 "thread");
				board->failed = true;
			}
		}
		read_errors();
		if (!board->failed && ended && board->done && WIFEXITED(status) &&
		    WEXITSTATUS(status) == 0) {
			report();
			return 0;
		}
		if (!board->failed) {
			snprintf(board->failure, sizeof board->failure, "the process ended: %s %d",
				 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit status",
				 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
			board->failed = true;
		}
		print_failure();
		return 1;
	}
};

} // namespace

std::string find_gdb()
{
	const char *path = getenv("PATH");
	std::string rest = path ? path : "/usr/bin:/bin";

	while (!rest.empty()) {
		const size_t colon = rest.find(':');
		const std::string file = rest.substr(0, colon) + "/gdb";

		if (access(file.c_str(), X_OK) == 0)
			return file;
		rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
	}
	return "";
}

int outer_fork(bool *is_child)
{
	int control[2], errors[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
	    pipe2(errors, O_CLOEXEC) < 0) {
		perror("hostile: socketpair, pipe");
		exit(2);
	}
	fflush(stdout);
	const pid_t child = fork();
	if (child < 0) {
		perror("hostile: fork");
		exit(2);
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		close(control[0]);
		close(errors[0]);
		dup2(errors[1], 2);
		close(errors[1]);
		asking = control[1];
		*is_child = true;
		return 0;
	}
	close(control[1]);
	close(errors[1]);
	fcntl(errors[0], F_SETFL, O_NONBLOCK);
	*is_child = false;
	Outer outer = {child, control[0], errors[0], {}};
	return outer.watch();
}

bool outer_ask(const std::string &what)
{
	char answer = 'n';
	ssize_t n;

	if (send(asking, what.c_str(), what.size(), MSG_NOSIGNAL) < 0)
		return false;
	while ((n = recv(asking, &answer, 1, 0)) < 0 && errno == EINTR)
		;
	return n == 1 && answer == 'y';
}

} // namespace hostile
