/* SPDX-License-Identifier: MIT */
/*
 * The configuration in effect while the relay serves, and everything that replaces it: a reload of
 * the file, and the changes of the control server.
 *
 * Both work in the same way. The text, from the file or edited (edit.hpp), is parsed and checked as
 * a whole. Then its listeners and files are opened, and only then does it take effect (change.hpp).
 * A failure anywhere before that changes nothing.
 *
 * A change lasts until the file is read again: a reload, a handover and a restart begin with the
 * file. Rejected: keeping changes apart from the file and applying them to each new version of it,
 * because a backend that was drained for a repair last year should not stay drained forever.
 *
 * One task at a time makes changes: the one that has the turn. serve() holds the turn except while
 * it waits for a signal, so the configuration does not change while it reads it; the other calls
 * take the turn themselves. After close() nothing changes any more.
 */
#ifndef RELAY_LIVE_CONFIG_HPP
#define RELAY_LIVE_CONFIG_HPP

#include "admin/control.hpp"
#include "base/in_time.hpp"
#include "server/serving.hpp"
#include "sessions/session.hpp"

#include <sennit/sennit.hpp>
#include <sennit/sn.hpp>

#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>

namespace relay
{

/* The signal that a change of stats_interval sends to the process itself, because the task that
 * waits for that time waits for signals. Nothing else happens on it, whoever sends it. */
inline constexpr int new_interval_signal = SIGWINCH;

class live_config final : public controller
{
public:
	/* all: its configuration is in effect, and was read from its file if it has one. `all`
	 * and `now` must outlive this. */
	live_config(shared &all, serving &now);
	live_config(const live_config &) = delete;
	live_config &operator=(const live_config &) = delete;
	~live_config() = default;

	/* To be held while the configuration is used outside of this class. */
	sn::mutex &turn() noexcept { return turn_; }

	/* With the turn. Reads the file again, and reports the result. Returns true if the new
	 * configuration is in effect. */
	bool reload_file() noexcept;

	/* With the turn. Reports that changes made since the file was read are about to be lost. */
	void tell_lost() const noexcept;

	/* Without the turn. From now on no change begins, so that the turn comes soon. Relaxed,
	 * because a change that begins at this moment might as well have begun before. */
	void refuse() noexcept { is_closed_.store(true, std::memory_order_relaxed); }

	/* With the turn. Nothing changes any more. */
	void close() noexcept { refuse(); }

	/* Without the turn. Reads the lists in files again if they have changed (list_files.hpp);
	 * to be called every few seconds. Skips a round while another task has the turn. */
	void look_at_lists() noexcept;

	/* Without the turn. */
	outcome configuration() override;
	outcome edit(const backend_edit &what, const requester &by) override;
	outcome reload(const requester &by) override;
	outcome kill(const session_filter &which) override;

private:
	bool take_over_file();
	bool lists_have_changed();
	void reread_lists();
	outcome try_to_edit(const backend_edit &what);
	bool put_in_effect(const std::shared_ptr<const config> &next, bool reread);
	outcome refusal() const;
	std::unique_lock<sn::mutex> wait_for_turn(const requester &by);

	shared &all_;
	serving &serving_;
	sn::mutex turn_; /* guards the fields below and all_'s configuration */
	std::shared_ptr<const config> from_file_;
	std::atomic<bool> is_closed_{false};
	turn_of_calls looking_;   /* held while list files are looked at */
	turn_of_calls rereading_; /* held while they are read again */
};

/* Closes the retired listeners that have drained their backlog, and waits a second at most for
 * others to do so. Frees the checks and lookups that have ended. */
void reap(serving &now);

} // namespace relay

#endif
