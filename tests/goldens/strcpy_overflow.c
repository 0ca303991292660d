int set_user_name(struct session *s, const char *input)
{
	char name[16];

	if (s == NULL)
		return -1;
	/* the input is copied without a look at its length */
	strcpy(name, input);
	s->name = strdup(name);
	return s->name ? 0 : -1;
}
