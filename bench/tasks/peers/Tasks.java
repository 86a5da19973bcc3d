// SPDX-License-Identifier: MIT
//
// The rows of bench-tasks with Java's virtual threads: java Tasks.java ROW prints one number, see
// tasks.py, which sets the number of carrier threads. Java has no select.
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.locks.ReentrantLock;

public class Tasks {
	interface Body {
		void run() throws Exception;
	}

	static Thread go(Body body) {
		return Thread.startVirtualThread(() -> {
			try {
				body.run();
			} catch (Exception e) {
				throw new RuntimeException(e);
			}
		});
	}

	static double spawnAll() throws Exception {
		final int n = 1000000;
		Thread[] all = new Thread[n];
		for (int i = 0; i < n; i++)
			all[i] = go(() -> {});
		for (Thread each : all)
			each.join();
		return n;
	}

	static double spawnGroup() throws Exception {
		final int n = 1000000;
		CountDownLatch all = new CountDownLatch(n);
		for (int i = 0; i < n; i++)
			go(all::countDown);
		all.await();
		return n;
	}

	static double spawnJoin() throws Exception {
		final int n = 200000;
		for (int i = 0; i < n; i++)
			go(() -> {}).join();
		return n;
	}

	static double yields() throws Exception {
		final int n = 500000;
		Thread[] two = new Thread[2];
		for (int i = 0; i < 2; i++)
			two[i] = go(() -> {
				for (int j = 0; j < n; j++)
					Thread.yield();
			});
		for (Thread t : two)
			t.join();
		return 2 * n;
	}

	static double pingPong() throws Exception {
		final int n = 300000;
		SynchronousQueue<Integer> ping = new SynchronousQueue<>(), pong = new SynchronousQueue<>();
		Thread other = go(() -> {
			for (int i = 0; i < n; i++)
				pong.put(ping.take());
		});
		for (int i = 0; i < n; i++) {
			ping.put(1);
			pong.take();
		}
		other.join();
		return n;
	}

	static double buffered(int pairs) throws Exception {
		final int n = 2000000;
		ArrayBlockingQueue<Integer> queue = new ArrayBlockingQueue<>(128);
		Thread[] threads = new Thread[2 * pairs];
		for (int i = 0; i < pairs; i++) {
			threads[2 * i] = go(() -> {
				for (int j = 0; j < n / pairs; j++)
					queue.put(1);
			});
			threads[2 * i + 1] = go(() -> {
				for (int j = 0; j < n / pairs; j++)
					queue.take();
			});
		}
		for (Thread t : threads)
			t.join();
		return n;
	}

	static int count;

	static double mutex() throws Exception {
		final int n = 4000000;
		ReentrantLock lock = new ReentrantLock();
		Thread[] threads = new Thread[8];
		for (int i = 0; i < 8; i++)
			threads[i] = go(() -> {
				for (int j = 0; j < n / 8; j++) {
					lock.lock();
					count++;
					lock.unlock();
				}
			});
		for (Thread t : threads)
			t.join();
		return n;
	}

	static void leaf(SynchronousQueue<Long> up, long from, long size) throws Exception {
		if (size == 1) {
			up.put(from);
			return;
		}
		SynchronousQueue<Long> mine = new SynchronousQueue<>();
		for (int i = 0; i < 10; i++) {
			long at = from + i * (size / 10);
			go(() -> leaf(mine, at, size / 10));
		}
		long sum = 0;
		for (int i = 0; i < 10; i++)
			sum += mine.take();
		up.put(sum);
	}

	static double skynet() throws Exception {
		SynchronousQueue<Long> up = new SynchronousQueue<>();
		go(() -> leaf(up, 0, 1000000));
		if (up.take() != 499999500000L)
			throw new IllegalStateException("the sum is wrong");
		return 1;
	}

	static long cpu() {
		return ((com.sun.management.OperatingSystemMXBean) ManagementFactory
				.getOperatingSystemMXBean()).getProcessCpuTime();
	}

	static double sleeps() throws Exception {
		final int n = 1000000;
		CountDownLatch all = new CountDownLatch(n);
		for (int i = 0; i < n; i++)
			go(() -> {
				Thread.sleep(1000);
				all.countDown();
			});
		all.await();
		return n;
	}

	static double used() throws Exception {
		for (int i = 0; i < 3; i++)
			System.gc();
		Runtime runtime = Runtime.getRuntime();
		return runtime.totalMemory() - runtime.freeMemory();
	}

	static double idleBytes() throws Exception {
		final int n = 200000;
		CountDownLatch never = new CountDownLatch(1);
		Thread[] keep = new Thread[n];
		double before = used();
		for (int i = 0; i < n; i++)
			keep[i] = go(never::await);
		Thread.sleep(500);
		double bytes = (used() - before) / n;
		never.countDown();
		return keep[0] == null ? 0 : bytes;
	}

	static double measure(String row) throws Exception {
		if (row.equals("idle-task"))
			return idleBytes();
		boolean inCpu = row.equals("sleeps");
		long began = inCpu ? cpu() : System.nanoTime();
		double n = switch (row) {
			case "spawn-all" -> spawnAll();
			case "spawn-group" -> spawnGroup();
			case "spawn-join" -> spawnJoin();
			case "yield" -> yields();
			case "ping-pong" -> pingPong();
			case "buffered-1" -> buffered(1);
			case "buffered-4" -> buffered(4);
			case "mutex-8" -> mutex();
			case "skynet" -> skynet();
			case "sleeps" -> sleeps();
			default -> throw new IllegalArgumentException(row);
		};
		return ((inCpu ? cpu() : System.nanoTime()) - began) / n;
	}

	public static void main(String[] arguments) throws Exception {
		double[] result = new double[1];
		// The first run is a warm-up: otherwise the compiler would be measured.
		int times = arguments[0].equals("idle-task") || arguments[0].equals("sleeps") ? 1 : 2;
		for (int i = 0; i < times; i++)
			go(() -> result[0] = measure(arguments[0])).join();
		if (result[0] == 0) /* it threw */
			System.exit(1);
		System.out.println(result[0]);
	}
}
