import io.netty.util.Timeout;
import io.netty.util.TimerTask;

/** What a timer runs, as Netty takes it. */
abstract class Task implements Runnable, TimerTask {
    @Override
    public final void run(Timeout timeout) {
        run();
    }
}
