import com.fasterxml.jackson.databind.JsonNode;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/** What Kafka's own authorizer makes of sets of ACLs; a JSON line a set. All codes are those of the protocol. */
final class Authorize {
    private Authorize() {}

    static void run(JsonNode request, PrintStream out) throws Exception {
        for (JsonNode set : request.get("sets")) {
            Map<Uuid, StandardAcl> acls = new HashMap<>();
            for (JsonNode acl : set.get("acls")) {
                acls.put(Uuid.randomUuid(), StandardAcl.fromAclBinding(binding(acl)));
            }
            StandardAuthorizer authorizer = new StandardAuthorizer();
            authorizer.configure(Map.of("allow.everyone.if.no.acl.found", set.get("everyone").asText(),
                    "super.users", set.get("super_users").asText()));
            authorizer.loadSnapshot(acls);
            authorizer.completeInitialLoad();
            List<Boolean> allowed = new ArrayList<>();
            for (JsonNode asked : set.get("asked")) {
                allowed.add(isAllowed(authorizer, asked));
            }
            List<Long> found = new ArrayList<>();
            for (JsonNode filter : set.get("filters")) {
                found.add(StreamSupport.stream(authorizer.acls(filter(filter)).spliterator(), false).count());
            }
            out.println(Clients.JSON.writeValueAsString(Map.of("allowed", allowed, "found", found)));
            authorizer.close();
        }
    }

    private static boolean isAllowed(StandardAuthorizer authorizer, JsonNode asked) throws Exception {
        Client client = new Client(SecurityUtils.parseKafkaPrincipal(asked.get("principal").asText()),
                InetAddress.getByName(asked.get("host").asText()));
        AclOperation operation = AclOperation.fromCode((byte) asked.get("operation").asInt());
        ResourceType type = ResourceType.fromCode((byte) asked.get("resource_type").asInt());
        if (asked.get("resource_name").isNull()) {
            return authorizer.authorizeByResourceType(client, operation, type) == AuthorizationResult.ALLOWED;
        }
        var resource = new ResourcePattern(type, asked.get("resource_name").asText(), PatternType.LITERAL);
        var actions = List.of(new Action(operation, resource, 1, true, true));
        return authorizer.authorize(client, actions).get(0) == AuthorizationResult.ALLOWED;
    }

    private static AclBinding binding(JsonNode acl) {
        return new AclBinding(
                new ResourcePattern(ResourceType.fromCode(code(acl, "resource_type")), acl.get("resource_name").asText(),
                        PatternType.fromCode(code(acl, "pattern_type"))),
                new AccessControlEntry(acl.get("principal").asText(), acl.get("host").asText(),
                        AclOperation.fromCode(code(acl, "operation")),
                        AclPermissionType.fromCode(code(acl, "permission_type"))));
    }

    private static AclBindingFilter filter(JsonNode filter) {
        return new AclBindingFilter(
                new ResourcePatternFilter(ResourceType.fromCode(code(filter, "resource_type")),
                        text(filter, "resource_name"), PatternType.fromCode(code(filter, "pattern_type"))),
                new AccessControlEntryFilter(text(filter, "principal"), text(filter, "host"),
                        AclOperation.fromCode(code(filter, "operation")),
                        AclPermissionType.fromCode(code(filter, "permission_type"))));
    }

    private static byte code(JsonNode fields, String name) {
        return (byte) fields.get(name).asInt();
    }

    private static String text(JsonNode fields, String name) {
        return fields.get(name).isNull() ? null : fields.get(name).asText();
    }

    private record Client(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "test";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
