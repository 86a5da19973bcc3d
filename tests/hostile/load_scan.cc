// SPDX-License-Identifier: MIT
//
// Scans of tasks that wait in a channel. The callback sends into that channel, so its caller must
// not hold a lock. Each value that the callback sent is received once.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include <sys/prctl.h>
#include <unistd.h>

#include <sennit/scan.h>

#include "hostile/loads.hpp"

namespace hostile
{
namespace
{

class Scan : public Work
{
public:
	~Scan() override { sn_chan_unref(chan_); }

	void begin(Phase &phase) override
	{
		chan_ = make_channel(sizeof(uint64_t), 2);
		for (int i = 0; i < receivers; i++) {
			sn_task *task;
			const uint64_t mark = limits_mark();
			const int error = sn_spawn(&task, receive, this, nullptr);

			if (error < 0) {
				refused(LOAD_SCAN, "sn_spawn()", error, mark);
				sn_sleep(ms);
			} else {
				tasks_.push_back(task);
			}
		}
		for (int i = 0; i < scanners; i++)
			phase.go_surely(LOAD_SCAN, [this, &phase, seed = phase.random.next()] {
				scan(phase, Random(seed));
			});
		static std::atomic<bool> started = false;

		start_outside(started, scan_from_outside);
		{
			std::lock_guard hold(current_lock);

			current = this;
		}
		// Joins last, so that every handle stays valid as long as a scan may use it.
		phase.go_surely(LOAD_SCAN, [this] {
			while (scanning_ > 0)
				sn_sleep(2 * ms);
			{
				std::lock_guard hold(current_lock);

				current = nullptr;
			}
			sn_chan_close(chan_);
			for (sn_task *task : tasks_)
				if (sn_join(task, nullptr) < 0)
					fail("scan: a task could not be joined");
		});
	}

	void end(Phase &) override
	{
		if (sent_ != received_)
			fail("scan: %llu were sent, %llu received",
			     (unsigned long long)sent_.load(),
			     (unsigned long long)received_.load());
	}

	int64_t queue() const override { return (receivers + scanners) * 2 * piece; }

private:
	static constexpr int receivers = 12, scanners = 2;

	static int receive(void *arg)
	{
		Scan *self = static_cast<Scan *>(arg);
		uint64_t value;

		while (sn_chan_recv(self->chan_, &value) == 0)
			self->received_++;
		return 0;
	}

	static void visit(const struct sn_scan *scan, void *arg)
	{
		Scan *self = static_cast<Scan *>(arg);
		const uint64_t value = 1;

		if (scan && sn_chan_try_send(self->chan_, &value) == 0)
			self->sent_++;
	}

	void scan(Phase &phase, Random random)
	{
		while (!phase.stopping() && !tasks_.empty()) {
			const uint64_t value = 2, mark = limits_mark();
			const int sent = sn_chan_send_until(chan_, &value, sn_now() + ms);

			if (sent == 0)
				sent_++;
			else if (sent != -ETIMEDOUT)
				refused(LOAD_SCAN, "sending", sent, mark);
			scan_one(random);
			if (random.one_in(16))
				sn_sleep(random.between(0, ms));
		}
		scanning_--;
	}

	// Scans from a plain thread, while tasks run on all processors, even if there is only one.
	static void scan_from_outside()
	{
		Random random(1);

		prctl(PR_SET_NAME, "scanner");
		for (;;) {
			{
				std::lock_guard hold(current_lock);

				for (int i = 0; i < 50 && current && !current->tasks_.empty(); i++)
					current->scan_one(random);
			}
			usleep(200);
		}
	}

	void scan_one(Random &random)
	{
		const int error = sn_task_scan(tasks_[random.below(tasks_.size())], visit, this);

		if (error == 0)
			done(LOAD_SCAN);
		else if (error != -EBUSY)
			fail("scan: sn_task_scan() returned %d", error);
	}

	static std::mutex current_lock; // held while the plain thread scans
	static Scan *current;

	sn_chan *chan_ = nullptr;
	std::vector<sn_task *> tasks_;
	std::atomic<int> scanning_{scanners};
	std::atomic<uint64_t> sent_{0}, received_{0};
};

std::mutex Scan::current_lock;
Scan *Scan::current;

} // namespace

std::unique_ptr<Work> make_scan()
{
	return std::make_unique<Scan>();
}

} // namespace hostile
