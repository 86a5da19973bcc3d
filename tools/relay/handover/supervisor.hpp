/* SPDX-License-Identifier: MIT */
/*
 * The first process: it stays while the relay is replaced by a new process (handover.hpp), because
 * a container ends with its process 1, and a shell or a supervisor would take the end of its child
 * for the end of the relay. There is one if the relay is process 1, or with --supervise.
 *
 * supervise() forks before there is a thread. The relay is the child. The first process has nothing
 * else to do, and wakes only for what follows:
 *
 * - SIGTERM and SIGINT go to every process of the relay, also to those that only finish their
 *   connections; SIGHUP, SIGUSR1 and SIGUSR2 to the newest. A signal from a terminal is not passed
 *   on, because the whole group has had it.
 * - A process that hands over reports the new one's id, once that serves. From then on that is the
 *   newest. A handover that fails is never reported, so nothing changes.
 * - It adopts and reaps what the relay leaves behind, and as process 1 every orphan.
 * - When all have ended it exits with the status of the newest, or 128 + the signal that killed it.
 * - If the newest ends without having been asked to, no process listens any more, and the parent of
 *   the first process should start it again. Therefore the others have their connections cut, are
 *   killed if they do not end within seconds, and the first process exits as above.
 * - If it is killed itself, the relay's processes notice (first_process_watch) and stop as on
 *   SIGTERM, because nobody could stop them any more.
 *
 * A new process is not its child while the old one lives, so it learns of the new one's end by a
 * pidfd; without pidfds (before Linux 5.3, or in a sandbox) when the old one has ended too. Until
 * then the ended process is a zombie, so no other process can get its id, and its signals.
 *
 * Not done: starting the new processes itself. It would have to be handed the sockets, and would
 * run for years from a program that was replaced long ago, so it knows as little as possible.
 */
#ifndef RELAY_SUPERVISOR_HPP
#define RELAY_SUPERVISOR_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <optional>
#include <sys/types.h>

namespace relay
{

/* The variable in which a process that hands over passes on its end of the socket to the first
 * process. */
inline constexpr const char *supervisor_variable = "SENNIT_RELAY_SUPERVISOR";

/*
 * In the relay: nothing; `link` is its end of a socket to the first process, or -1 if there is
 * none. In the first process: the exit status, when everything has ended. Call it before there are
 * threads, and before the variables of a handover are taken from the environment.
 */
std::optional<int> supervise(bool asked, int &link);

/* Reports that the process serves, and this one only finishes its connections. */
void report_newest(int link, pid_t pid) noexcept;

/* Makes the process stop as on SIGTERM when the first process has ended. In a task. */
class first_process_watch
{
public:
	/* `link` may be -1: nothing is watched. Throws if no task can be started. */
	explicit first_process_watch(int link);
	first_process_watch(const first_process_watch &) = delete;
	first_process_watch &operator=(const first_process_watch &) = delete;
	/* May park. */
	~first_process_watch();

private:
	void run() noexcept;

	const int link_;
	sn::semaphore end_;
	sn::task<void> running_;
};

} // namespace relay

#endif
