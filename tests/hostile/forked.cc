// SPDX-License-Identifier: MIT
#include "hostile/forked.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sennit/sennit.h>

#include "hostile/board.hpp"

namespace hostile
{
namespace
{

enum Step { RUN = 10, JOIN, CHANNEL, TIMER, NETWORK, SIGNAL, DEADLOCK, FILES };

void begin(Step step)
{
	board->forked_step = step;
}

[[noreturn]] void failed(Step step)
{
	_exit(step);
}

int send_three(void *arg)
{
	for (int i = 1; i <= 3; i++)
		if (sn_chan_send(static_cast<sn_chan *>(arg), &i) < 0)
			failed(CHANNEL);
	return 9;
}

void channel()
{
	sn_chan *chan;
	sn_task *task;
	int value = 0, result = 0;

	begin(CHANNEL);
	if (sn_chan_new(&chan, sizeof(int), 0) < 0 ||
	    sn_spawn(&task, send_three, chan, nullptr) < 0)
		failed(CHANNEL);
	for (int i = 1; i <= 3; i++)
		if (sn_chan_recv(chan, &value) < 0 || value != i)
			failed(CHANNEL);
	if (sn_join(task, &result) < 0 || result != 9)
		failed(JOIN);
	sn_chan_unref(chan);
}

int answer(void *arg)
{
	sn_tcp *conn;
	char byte;

	if (sn_tcp_accept(static_cast<sn_tcp_listener *>(arg), &conn) < 0 ||
	    sn_tcp_read(conn, &byte, 1) != 1 || sn_tcp_write(conn, &byte, 1) != 1)
		failed(NETWORK);
	return sn_tcp_close(conn);
}

void network()
{
	char address[SN_ADDRESS_MAX], byte = 'x';
	sn_tcp_listener *listener;
	sn_task *task;
	sn_tcp *conn;

	begin(NETWORK);
	if (sn_tcp_listen(&listener, "127.0.0.1:0") < 0 ||
	    sn_tcp_listener_address(listener, address, sizeof address) < 0 ||
	    sn_spawn(&task, answer, listener, nullptr) < 0 ||
	    sn_tcp_connect(&conn, address, SN_NO_DEADLINE) < 0 ||
	    sn_tcp_write(conn, &byte, 1) != 1 || sn_tcp_read(conn, &byte, 1) != 1 || byte != 'x' ||
	    sn_join(task, nullptr) < 0)
		failed(NETWORK);
	sn_tcp_close(conn);
	sn_tcp_listener_close(listener);
}

void catch_a_signal()
{
	begin(SIGNAL);
	if (sn_signal_catch(SIGUSR1) < 0)
		failed(SIGNAL);
	kill(getpid(), SIGUSR1);
	if (sn_signal_wait(sn_now() + 10000000000) != SIGUSR1)
		failed(SIGNAL);
}

// Called by the hook, because nothing else could wake the first task.
void end_a_deadlock()
{
	static sn_chan *chan;

	begin(DEADLOCK);
	if (sn_chan_new(&chan, 0, 1) < 0)
		failed(DEADLOCK);
	sn_on_deadlock([](void *) { (void)!sn_chan_try_send(chan, nullptr); }, nullptr);
	if (sn_chan_recv(chan, nullptr) < 0)
		failed(DEADLOCK);
	sn_on_deadlock(nullptr, nullptr);
	sn_chan_unref(chan);
}

int job(void *)
{
	const int64_t begun = sn_now();

	channel();
	begin(TIMER);
	if (sn_sleep(2000000) < 0 || sn_now() - begun < 2000000)
		failed(TIMER);
	network();
	end_a_deadlock();
	begin(RUN);
	return 5;
}

// Runs in a run of its own, because once signals are caught, a task could be woken from outside,
// and there would be no deadlock.
int signal_job(void *)
{
	catch_a_signal();
	begin(RUN);
	return 6;
}

} // namespace

void forked_main()
{
	constexpr int files = 64;
	struct stat before[files], after;
	int fds[files];

	begin(FILES);
	// With a handler, no deadlock would be reported.
	signal(SIGALRM, SIG_DFL);
	alarm(forked_seconds);
#ifdef SYS_close_range
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
#endif
		for (int fd = 3; fd < 4096; fd++)
			close(fd);
	for (int i = 0; i < files; i++)
		if ((fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0 ||
		    fstat(fds[i], &before[i]) < 0)
			failed(FILES);
	begin(RUN);
	if (sn_run(job, nullptr) != 5 || sn_run(signal_job, nullptr) != 6)
		failed(RUN);
	for (int i = 0; i < files; i++)
		if (fstat(fds[i], &after) < 0 || after.st_ino != before[i].st_ino ||
		    after.st_dev != before[i].st_dev)
			failed(FILES);
	_exit(forked_well);
}

std::string forked_status(int status)
{
	static const char *const names[] = {"sn_run()",   "joining",      "a channel",
					    "a sleep",    "a connection", "a signal",
					    "a deadlock", "its own files"};
	const int step = WIFEXITED(status) ? WEXITSTATUS(status) : board->forked_step.load();
	const std::string name = step >= RUN && step <= FILES ? names[step - RUN] : "unknown";

	if (WIFSIGNALED(status))
		return name + ": " + strsignal(WTERMSIG(status));
	return step == forked_well ? "well" : name + " failed";
}

} // namespace hostile
