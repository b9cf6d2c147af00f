import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs test classes, and prints a line for each test and one at the end. */
public class RunAll extends RunListener {
  private boolean failed;

  public static void main(String[] names) throws Exception {
    JUnitCore core = new JUnitCore();
    core.addListener(new RunAll());
    for (String name : names) {
      core.run(Class.forName(name));
    }
    System.out.println("##end");
    System.out.flush();
    // The SDK's threads go on.
    Runtime.getRuntime().halt(0);
  }

  private static String name(Description test) {
    String type = test.getClassName();
    return type.substring(type.lastIndexOf('.') + 1) + "." + (test.getMethodName() == null ? "class" : test.getMethodName());
  }

  private static synchronized void say(String result, Description test, String text) {
    System.out.println();
    System.out.println("##" + result + " " + name(test) + " " + text.replaceAll("\\s+", " "));
  }

  @Override
  public void testStarted(Description test) {
    failed = false;
  }

  @Override
  public void testFailure(Failure failure) {
    failed = true;
    say("failed", failure.getDescription(), failure.getException().toString());
  }

  @Override
  public void testAssumptionFailure(Failure failure) {
    failed = true;
    say("skipped", failure.getDescription(), "");
  }

  @Override
  public void testIgnored(Description test) {
    say("skipped", test, "");
  }

  @Override
  public void testFinished(Description test) {
    if (!failed) {
      say("passed", test, "");
    }
  }
}
