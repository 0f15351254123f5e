package member;

import io.micronaut.runtime.Micronaut;

/** SIGTERM closes it. */
public final class Member {
    private Member() {}

    public static void main(String[] arguments) {
        Micronaut.run(Member.class, arguments);
    }
}
