static int parse_header(const unsigned char *packet, size_t length, struct header *out)
{
	char name[32];
	size_t name_length;

	if (length < 4)
		return -1;
	out->version = packet[0];
	out->flags = packet[1];
	name_length = packet[2] << 8 | packet[3];
	memcpy(name, packet + 4, name_length);
	name[name_length] = '\0';
	out->name = strdup(name);
	return out->name ? 0 : -1;
}
