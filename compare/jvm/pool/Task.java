/** What a timer runs. */
abstract class Task implements Runnable {}
