/* SPDX-License-Identifier: MIT */
/*
 * The first process: it stays while the relay is replaced by a new process (handover.hpp), because
 * a container ends with its process 1, and a shell or a supervisor would take the end of its child
 * for the end of the relay. There is one if the relay is process 1, or with --supervise.
 *
 * supervise() forks before there is a thread. The relay is the child. The first process wakes only
 * for this:
 *
 * - It passes SIGTERM and SIGINT on to every process of the relay, also to those that only finish
 *   their connections; SIGHUP likewise, on which those only reopen their access log; and SIGUSR1
 *   and SIGUSR2 to the newest. It does not pass on a signal from a terminal, because the terminal
 *   sends it to the whole process group.
 * - A process that hands over reports the new process's id once the new one serves. From then on
 *   the new one is the newest. A handover that fails is never reported, so nothing changes.
 * - It adopts and reaps the processes that the relay leaves behind, and as process 1 every orphan.
 * - When all have ended it exits with the status of the newest, or 128 + the signal that killed it.
 * - If the newest ends without having been asked to, no process listens any more, and the parent of
 *   the first process should start the relay again. The first process therefore makes the others
 *   cut their connections, kills those that do not end within seconds, and exits as above.
 * - If it is killed itself, the relay's processes notice (first_process_watch) and stop as on
 *   SIGTERM, because nobody could stop them any more.
 *
 * A new process is not a child of the first process while the old one lives, so the first process
 * learns of the new one's end by a pidfd. Without pidfds (before Linux 5.3, or in a sandbox) it
 * learns of that only when the old one has ended too. Until then the ended process is a zombie, so
 * no other process can get its id, and with it a signal that was meant for it.
 *
 * Rejected: a first process that starts the new ones itself. It would have to be handed the
 * sockets. It also runs for years from a program file that was replaced long ago, so it should know
 * as little as possible.
 */
#ifndef RELAY_SUPERVISOR_HPP
#define RELAY_SUPERVISOR_HPP

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <optional>
#include <sys/types.h>

namespace relay
{

/* The environment variable by which a process that hands over passes its socket to the first
 * process on to the new process. */
inline constexpr const char *supervisor_variable = "SENNIT_RELAY_SUPERVISOR";

/*
 * Forks if there is to be a first process. In the relay it returns nothing, and sets `link` to the
 * relay's end of a socket to the first process, or to -1 if there is none. In the first process it
 * returns the exit status when all processes have ended. Call it before there are threads, before
 * the variables of a handover are taken from the environment, and while SIGCHLD is not ignored.
 */
std::optional<int> supervise(bool asked, int &link);

/* Reports that process `pid` serves, and that this one only finishes its connections. */
void report_newest(int link, pid_t pid) noexcept;

/* Whether the first process has read the report. A SIGHUP that it has passed on before that has
 * come to this process only; a later one goes to the new process, too. True if there is no first
 * process. */
bool is_report_read(int link) noexcept;

/* Makes the process stop as on SIGTERM when the first process has ended. In a task. */
class first_process_watch
{
public:
	/* If `link` is -1, nothing is watched. Throws if no task can be started. */
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
