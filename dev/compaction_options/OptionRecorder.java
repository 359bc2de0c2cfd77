import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.Set;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/** Notes which options Hudi asks for between `start` and `stop`: each reading of one asks its ConfigProperty for its key. */
public class OptionRecorder implements ClassFileTransformer {
  private static final String PROPERTY = "org/apache/hudi/common/config/ConfigProperty";
  private static final Set<String> asked = new ConcurrentSkipListSet<>();
  private static volatile boolean on;

  public static void premain(String arguments, Instrumentation instrumentation) {
    instrumentation.addTransformer(new OptionRecorder());
  }

  public static void start() {
    asked.clear();
    on = true;
  }

  public static String stop() {
    on = false;
    return String.join("\n", asked);
  }

  /** Filling in defaults and putting a configuration together is no reading. */
  public static void note(String key) {
    if (on && StackWalker.getInstance().walk(frames -> frames.limit(12).noneMatch(OptionRecorder::isSetting))) {
      asked.add(key);
    }
  }

  private static boolean isSetting(StackWalker.StackFrame frame) {
    String method = frame.getMethodName();
    return method.startsWith("setDefault") || method.equals("setValue") || frame.getClassName().endsWith("$Builder");
  }

  @Override
  public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] code) {
    if (!PROPERTY.equals(name)) {
      return null;
    }
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
      @Override
      public MethodVisitor visitMethod(int access, String method, String descriptor, String signature, String[] thrown) {
        MethodVisitor visitor = super.visitMethod(access, method, descriptor, signature, thrown);
        if (!method.equals("key") || !descriptor.equals("()Ljava/lang/String;")) {
          return visitor;
        }
        return new MethodVisitor(Opcodes.ASM9, visitor) {
          @Override
          public void visitCode() {
            super.visitCode();
            visitVarInsn(Opcodes.ALOAD, 0);
            visitFieldInsn(Opcodes.GETFIELD, PROPERTY, "key", "Ljava/lang/String;");
            visitMethodInsn(Opcodes.INVOKESTATIC, "OptionRecorder", "note", "(Ljava/lang/String;)V", false);
          }
        };
      }
    }, 0);
    return writer.toByteArray();
  }
}
